"""Parts that every workload family uses: passes, recorder, optimizers, schedules, framework profiles."""
