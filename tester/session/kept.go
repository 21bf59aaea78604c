// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"

	"weir/tester"
)

// Kept is the machine's engine with analyzers that stay attached from run to run: some network
// cards lose their link when a program is attached, and a benchmark has many runs. Each run must
// use new stream identifiers. The zero value is ready; the caller must Close it. Account.Foreign
// and Unknown count from the attachment on. It is not safe for concurrent use.
type Kept struct {
	machine
	open map[string]*kept // by port
}

// kept is an analyzer that outlives its runs, with its announced identifiers and the used ones.
type kept struct {
	Receiver
	known, used []uint16
}

// block is the number of identifiers announced to an analyzer at once: few enough for a quick
// snapshot.
const block = 16

// Receive returns the port's analyzer if the streams are announced and unused, or attaches a new
// one.
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

// Send starts the machine's generator.
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
