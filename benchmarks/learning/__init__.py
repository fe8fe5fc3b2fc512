"""What learning delivers, with stand-ins."""
