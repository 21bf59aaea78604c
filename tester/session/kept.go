// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"

	"weir/tester"
)

// Kept is the machine's engine with analyzers that stay attached from run to run: attaching makes
// some network cards lose their link, and a benchmark has many runs. Runs must use ever new stream
// identifiers. The zero value is ready; Close it. Account.Foreign and Unknown then count from the
// attaching on. It is not safe for concurrent use.
type Kept struct {
	machine
	open map[string]*kept // by port
}

// kept is an analyzer that outlives its runs, with the identifiers it knows and those that were
// used.
type kept struct {
	Receiver
	known, used []uint16
}

// block is how many identifiers an analyzer is told at once: few enough for a quick snapshot.
const block = 16

// Receive returns the port's analyzer if it knows the streams and has not seen them yet, or
// attaches a new one.
func (k *Kept) Receive(to Port, expect Reception) (Receiver, error) {
	name := to.String()
	if have := k.open[name]; have != nil {
		if have.fresh(expect.Streams) {
			have.used = append(have.used, expect.Streams...)
			return borrowed{have.Receiver}, nil
		}
		delete(k.open, name)
		if err := have.Close(); err != nil {
			return nil, err
		}
	}
	known := slices.Clone(expect.Streams)
	for i := uint16(1); len(known) < block && len(expect.Streams) > 0; i++ {
		if id := (slices.Max(expect.Streams) + i) % tester.MaxStreams; !slices.Contains(known, id) {
			known = append(known, id)
		}
	}
	receiver, err := k.machine.Receive(to, Reception{Streams: known, Capture: expect.Capture, Relative: expect.Relative})
	if err != nil {
		return nil, err
	}
	if k.open == nil {
		k.open = map[string]*kept{}
	}
	k.open[name] = &kept{Receiver: receiver, known: known, used: slices.Clone(expect.Streams)}
	return borrowed{receiver}, nil
}

func (k *kept) fresh(streams []uint16) bool {
	for _, id := range streams {
		if !slices.Contains(k.known, id) || slices.Contains(k.used, id) {
			return false
		}
	}
	return true
}

// Send is the machine's.
func (k *Kept) Send(ctx context.Context, from Port, schedule tester.Schedule) (Sender, error) {
	return k.machine.Send(ctx, from, schedule)
}

// Close detaches all analyzers.
func (k *Kept) Close() error {
	var all []error
	for _, have := range k.open {
		all = append(all, have.Close())
	}
	k.open = nil
	return errors.Join(all...)
}

// borrowed is an analyzer that a run must not detach.
type borrowed struct{ Receiver }

func (borrowed) Close() error { return nil }
