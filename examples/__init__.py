"""Small private training runs from exported strategies, and an audit of the exports; tests run them in reduced form."""
