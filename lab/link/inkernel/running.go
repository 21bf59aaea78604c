// SPDX-License-Identifier: Apache-2.0

package inkernel

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/lab/link"
)

// Running are cables at work: all of [link.Carrying] but Begin.
type Running[D Direction] struct {
	carrier *Carrier[D]
	place   Place
	names   []string // of the cables

	mu         sync.Mutex // guards the rest, once the carrier has started
	directions []D        // forward and reverse alternate
	closed     bool
}

func (r *Running[D]) add(number int, cable link.Cable) error {
	for _, dev := range []string{cable.A, cable.B} {
		if err := r.carrier.Ready(r.place.Namespace, dev); err != nil {
			return err
		}
	}
	r.names = append(r.names, cable.Name)
	for i, p := range []Path{{cable.Forward, "", cable.A, cable.B}, {cable.Reverse, "", cable.B, cable.A}} {
		p.Name = fmt.Sprintf("%d-%d", number, i)
		d := r.carrier.New(&r.place, p)
		r.directions = append(r.directions, d)
		if err := d.Build(); err != nil {
			return fmt.Errorf("cable %s: %w", cable.Name, err)
		}
	}
	return nil
}

// Mechanism implements [link.Carrying].
func (r *Running[D]) Mechanism() string { return r.carrier.Name }

// Place is where the directions are, until Close.
func (r *Running[D]) Place() *Place { return &r.place }

// CPU is zero: the kernel does the work in the time of the sender.
func (*Running[D]) CPU() time.Duration { return 0 }

// Each calls f for all directions, forward and reverse alternately.
func (r *Running[D]) Each(f func(D) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("it has been closed")
	}
	for _, d := range r.directions {
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

// Status implements [link.Carrying].
func (r *Running[D]) Status() (all []link.Status, err error) {
	var counters []link.Counters
	err = r.Each(func(d D) error {
		c, err := d.Counters()
		counters = append(counters, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the links' counters: %w", err)
	}
	for i, name := range r.names {
		all = append(all, link.Status{Cable: name, Forward: counters[2*i], Reverse: counters[2*i+1]})
	}
	return all, nil
}

// Close takes all directions away. It may be called twice.
func (r *Running[D]) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var failures []error
	for _, d := range r.directions {
		failures = append(failures, d.Remove())
	}
	r.place.Devices.Close()
	r.place.Qdiscs.Close()
	return errors.Join(failures...)
}
