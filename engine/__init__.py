"""How the search runs: pilot objective, Ray Tune trials on warm actors, certification stage, results, exports."""
