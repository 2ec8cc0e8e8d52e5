"""Rules alone: values in, values out."""
