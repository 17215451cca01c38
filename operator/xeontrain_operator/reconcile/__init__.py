"""From what is observed to what is done: `decide` is pure, `loop` has the effects."""
