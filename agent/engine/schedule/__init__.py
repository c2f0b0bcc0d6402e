"""When a vertex may run: queues, definition order, limits, semaphores, workers, timers, pauses, passes."""
