"""What can be chosen: problems, batch selection schemes, Toeplitz strategies and their error, and the search spaces over them."""
