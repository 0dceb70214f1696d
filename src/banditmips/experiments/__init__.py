"""The paper's figures run again: one module for each, a runner, and the rows that they leave."""
