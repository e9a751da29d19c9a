"""The serving model's constants: fitted to public runs and benchmark submissions, with the errors of whatever was left out."""
