// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"errors"

	"weir/modules/ioam/collect"
	"weir/modules/ioam/node"
)

// reading adds up the records of a node in its own goroutine, between read and close.
type reading struct {
	records *node.Reader
	asked   chan chan *collect.Summary // answered after the last record is read
	stop    chan struct{}
	ended   chan struct{}
	failed  error // set before the goroutine ends
}

func read(a *node.Attached) (*reading, error) {
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
		case errors.Is(err, node.ErrRecord): // not a record of this lab's nodes; no other counter has it
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

// take returns the sum since the last call, including all records written so far.
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
