"""The scale-out home of the records: a PostgreSQL database that several coordinators share."""
