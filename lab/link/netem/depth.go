// SPDX-License-Identifier: Apache-2.0

package netem

import (
	"math"
	"sync"
	"time"

	"weir/kernel/tc"
	"weir/lab/link"
	"weir/lab/link/inkernel"
)

const (
	// readPeriod is the period of reading queue lengths in labs of few links, readMost in those of
	// many: each read dumps all qdiscs.
	readPeriod, readMost = 20 * time.Millisecond, link.DepthInterval
	fewDirections        = 32
	// depthBins bounds the kept intervals of a queue's length: ten minutes.
	depthBins = 6000
)

// running holds the active chains. A goroutine reads their queues until Close.
type running struct {
	*inkernel.Running[*chain]
	queues        []int // the device of each direction's bottleneck; 0 for none
	stop, stopped chan struct{}
	once          sync.Once

	mu     sync.Mutex // guards the rest
	began  time.Time
	depths [][]uint32 // of all directions, by intervals since began
	now    int        // the interval of the latest reading
}

func newRunning(chains *inkernel.Running[*chain]) *running {
	r := &running{Running: chains, stop: make(chan struct{}), stopped: make(chan struct{})}
	paced := 0
	_ = r.Each(func(c *chain) error {
		r.queues = append(r.queues, c.queue)
		if c.paced {
			paced++
		}
		return nil
	})
	_ = r.Begin()
	if paced == 0 {
		close(r.stopped)
		return r
	}
	go r.read(min(readMost, readPeriod*time.Duration(1+paced/fewDirections)))
	return r
}

// Begin implements [link.Carrying].
func (r *running) Begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.now, r.depths = time.Now(), 0, make([][]uint32, len(r.queues))
	return nil
}

// read reads the queues' lengths until the links are closed. A failed read is skipped; the links'
// counters report any error.
func (r *running) read(period time.Duration) {
	defer close(r.stopped)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
			if all, err := r.Place().Qdiscs.All(); err == nil {
				r.note(all)
			}
		}
	}
}

// note records one reading. Intervals without a reading keep the previous value.
func (r *running) note(all map[int][]tc.Qdisc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := min(int(time.Since(r.began)/link.DepthInterval), depthBins)
	for i, queue := range r.queues {
		var octets uint64
		for _, q := range all[queue] {
			if queue > 0 && q.Parent == tc.Root {
				octets = q.Backlog
			}
		}
		r.depths[i] = noted(r.depths[i], now, uint32(min(octets, math.MaxUint32)))
	}
	r.now = now
}

func noted(bins []uint32, now int, octets uint32) []uint32 {
	for len(bins) <= now {
		before := uint32(0)
		if n := len(bins); n > 0 && n < now {
			before = bins[n-1]
		}
		bins = append(bins, before)
	}
	bins[now] = max(bins[now], octets)
	return bins
}

// Depths implements [link.Gauging]: the maximum reading in each completed interval.
func (r *running) Depths() (all [][2][]uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := func(bins []uint32) []uint32 { return append([]uint32{}, bins[:min(r.now, len(bins))]...) }
	for i := 0; i+1 < len(r.depths); i += 2 {
		all = append(all, [2][]uint32{over(r.depths[i]), over(r.depths[i+1])})
	}
	return all, nil
}

// Close ends the reading and removes the chains.
func (r *running) Close() error {
	r.once.Do(func() { close(r.stop) })
	<-r.stopped
	return r.Running.Close()
}
