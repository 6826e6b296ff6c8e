package consumer

// queue holds tasks in order. What is taken off its head costs no copying of
// what stays.
type queue struct {
	tasks []*task
	head  int
}

func (q *queue) len() int { return len(q.tasks) - q.head }

func (q *queue) push(t *task) { q.tasks = append(q.tasks, t) }

// take removes the first n tasks and calls f for each. f must not touch q.
func (q *queue) take(n int, f func(*task)) {
	for _, t := range q.tasks[q.head : q.head+n] {
		f(t)
	}
	clear(q.tasks[q.head : q.head+n])
	if q.head += n; q.head > len(q.tasks)/2 {
		kept := copy(q.tasks, q.tasks[q.head:])
		clear(q.tasks[kept:])
		q.tasks, q.head = q.tasks[:kept], 0
	}
}

// drain removes and returns everything.
func (q *queue) drain() []*task {
	tasks := q.tasks[q.head:]
	*q = queue{}
	return tasks
}
