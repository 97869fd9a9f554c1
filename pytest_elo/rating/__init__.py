"""Rating: numpy only, arrays in, arrays out."""
