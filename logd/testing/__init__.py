"""What tests, benches and demonstrations of logd, here and elsewhere, start for real."""
