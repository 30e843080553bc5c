"""The tests mirror the tree; lab/ holds real hosts, faults/ breaks them."""
