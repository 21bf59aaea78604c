// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"

	"weir/modules/ioam"
	"weir/modules/ioam/collect"
)

// reading adds up what a node tells, in a goroutine of its own, between read and close.
type reading struct {
	records *ioam.Reader
	asked   chan chan *collect.Summary // answered when nothing is left to read
	stop    chan struct{}
	ended   chan struct{}
	failed  error // set before the goroutine ends
}

func read(a *ioam.Attached) (*reading, error) {
	records, err := a.Records()
	if err != nil {
		return nil, err
	}
	r := &reading{records: records, asked: make(chan chan *collect.Summary), stop: make(chan struct{}), ended: make(chan struct{})}
	go r.run()
	return r, nil
}

func (r *reading) run() {
	defer close(r.ended)
	sum := &collect.Summary{}
	var record collect.Record
	for {
		is, err := r.records.Next(&record)
		switch {
		case errors.Is(err, ioam.ErrRecord): // counted by nobody else, and not of this lab's nodes
			continue
		case err != nil:
			r.failed = err
			return
		case is:
			sum.Add(&record)
			continue
		}
		select {
		case answer := <-r.asked:
			answer <- sum
			sum = &collect.Summary{}
		case <-r.stop:
			return
		default:
		}
	}
}

// take returns what was told since the last time, all that the node has written until now included.
func (r *reading) take() (*collect.Summary, error) {
	answer := make(chan *collect.Summary, 1)
	select {
	case r.asked <- answer:
		return <-answer, nil
	case <-r.ended:
		return nil, r.failed
	}
}

func (r *reading) close() error {
	close(r.stop)
	<-r.ended
	return r.records.Close()
}
