"""The arena: prompts without a right answer, contestants judged against each other in pairs."""
