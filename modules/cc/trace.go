// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Trace reads the steps of all connections in the order in which they happened. E is the type of
// the control's events.
type Trace[E any] struct {
	reader *ringbuf.Reader
	decode func([]byte) (E, error)
}

// Follow opens the events of a control installed with Options.Trace. E is its event type: [Event]
// for dctcp. Only one reader at a time gets them.
func Follow[E any](i *Installed) (*Trace[E], error) {
	decode, fits := i.kind.traces.decode.(func([]byte) (E, error))
	if !fits {
		return nil, fmt.Errorf("follow congestion control: %s has events of another type", i.kind.name)
	}
	if i.events == nil {
		return nil, errors.New("follow congestion control: it was installed without tracing")
	}
	reader, err := ringbuf.NewReader(i.events)
	if err != nil {
		return nil, fmt.Errorf("follow congestion control: %w", err)
	}
	return &Trace[E]{reader, decode}, nil
}

// Close ends a Next that waits.
func (t *Trace[E]) Close() error { return t.reader.Close() }

// Next returns the next event. It waits for one until the deadline, and returns
// os.ErrDeadlineExceeded then.
func (t *Trace[E]) Next(deadline time.Time) (event E, err error) {
	t.reader.SetDeadline(deadline)
	record, err := t.reader.Read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return event, err
	}
	if err != nil {
		return event, fmt.Errorf("follow congestion control: %w", err)
	}
	return t.decode(record.RawSample)
}
