"""Pure folds of the log: the view, the request, and what people look at."""
