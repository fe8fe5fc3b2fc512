"""Small real models: recordings and their replays."""
