"""Products (tenants), access control, budgets, dispatch modes and other governance records."""
