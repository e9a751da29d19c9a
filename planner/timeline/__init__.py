"""When do we run out, and what do we order now: demand, orders, racks by state, the shared fleet, money and a search, month by month."""
