package main

import (
	"strconv"
	"sync"
	"time"
)

// pacer publishes at a rate and takes the time from just before a message is
// published until its handler begins, all in one process and by one clock.
type pacer struct {
	m      *meter
	joined chan struct{} // closed when the first message has arrived

	mu   sync.Mutex
	sent []time.Time
	once sync.Once
}

const warm = "warm"

// pace sends until the consumer has joined, then *n messages at *rate.
func pace(m *meter, send func(id, seq string, value []byte)) *pacer {
	p := &pacer{m: m, joined: make(chan struct{}), sent: make([]time.Time, *n)}
	go func() {
		for i := 0; ; i++ {
			id := "warm-" + strconv.Itoa(i)
			send(id, warm, orderValue(i, id))
			select {
			case <-p.joined:
			case <-time.After(200 * time.Millisecond):
				continue
			}
			break
		}
		time.Sleep(time.Second) // the other warming messages are through
		begin := time.Now()
		for i := range *n {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(*rate))))
			id := orderID(i)
			value := orderValue(i, id)
			p.mu.Lock()
			p.sent[i] = time.Now()
			p.mu.Unlock()
			send(id, strconv.Itoa(i), value)
		}
	}()
	return p
}

// arrived notes the latency of a message and says whether it counts.
func (p *pacer) arrived(seq string) bool {
	now := time.Now()
	if seq == warm {
		p.once.Do(func() { close(p.joined) })
		return false
	}
	i, err := strconv.Atoi(seq)
	must(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.latencies = append(p.m.latencies, now.Sub(p.sent[i]))
	return true
}
