"""One module for each page, with its routes and forms."""
