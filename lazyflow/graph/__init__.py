"""What a graph is: tasks that point at their inputs, their names, and the plan made of them."""
