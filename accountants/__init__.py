"""What privacy a choice has: one module per accountant, a common result type, calibration and certificates."""
