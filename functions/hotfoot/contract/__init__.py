"""What crosses a wall between the packages. Standard library only."""
