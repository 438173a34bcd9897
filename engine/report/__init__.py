"""The report of a run: one self-contained HTML page, and its figures as PNG files"""
