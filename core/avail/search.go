// SPDX-License-Identifier: Apache-2.0

package avail

import (
	"context"
	"errors"
	"math"
	"time"

	"weir/core/prove/station"
	"weir/internal/fault"
)

// Constants of a search: rates in bit/s of payload, and times.
const (
	firstRate = 1e6
	minRate   = 20e3
	rise      = 1.5 // factor between trains below the rate
	apart     = 1.08
	trainTime = 30 * time.Millisecond
	shortest  = 40   // datagrams in a train
	longest   = 4000 // datagrams, the capacity of a report; no train needs more
	votes     = 3    // trains per rate; the majority decides
	halvings  = 8
	// slow is the share of the requested rate below which a train shows that this host sends no
	// faster.
	slow = .7
)

// path sends a train, and waits until its queue is empty again.
type path interface {
	train(ctx context.Context, rate float64, datagrams int) (train, error)
}

// bracket is the result of one search: the highest rate that the path carried, and the lowest that
// it did not carry; 0 if there is none.
type bracket struct {
	low, high float64
	slow      bool // this host sends no faster
}

// estimate returns the middle of the bracket.
func (b bracket) estimate() float64 {
	if b.high == 0 {
		return b.low
	}
	return (b.low + b.high) / 2
}

// search brackets the available rate, from a rate that is probably below it up to most.
func search(ctx context.Context, p path, from, most float64) (b bracket, err error) {
	rate, late := min(max(from, minRate), most), 0
	for b.high == 0 {
		t, above, err := vote(ctx, p, rate)
		if err != nil {
			return b, err
		}
		switch {
		case above && b.low == 0 && rate > minRate:
			b.high, rate = 0, max(rate/4, minRate) // the first rate was above it
			continue
		case above:
			b.high = t
		default:
			b.low = max(b.low, t)
			late++
		}
		if t >= slow*rate {
			late = 0
		}
		b.slow = late > 1 // a single late train may be chance
		if b.slow || rate == most && !above {
			return b, nil
		}
		if late == 0 {
			rate = min(rate*rise, most)
		}
	}
	for range halvings {
		if b.high <= b.low*apart {
			break
		}
		t, above, err := vote(ctx, p, middle(b))
		if err != nil {
			return b, err
		}
		if above {
			b.high = min(b.high, max(t, b.low))
		} else {
			b.low = max(b.low, min(t, b.high))
		}
	}
	return b, nil
}

func middle(b bracket) float64 {
	if b.low == 0 {
		return b.high / 2
	}
	return math.Sqrt(b.low * b.high)
}

// vote sends trains of a rate until a majority decides whether the path carries it, and returns the
// mean of their actual rates.
func vote(ctx context.Context, p path, rate float64) (mean float64, above bool, err error) {
	datagrams := int(rate * trainTime.Seconds() / (station.Payload * 8))
	datagrams = min(max(datagrams, shortest), longest)
	yes, no, sum := 0, 0, 0.
	for failed := 0; yes <= votes/2 && no <= votes/2; {
		t, err := p.train(ctx, rate, datagrams)
		again := errors.Is(err, errNothing) || errors.Is(err, errDoubt)
		if again && failed < votes {
			failed++
			continue
		}
		if errors.Is(err, errDoubt) { // other traffic delayed the small packets each time
			t.above, err = true, nil
		}
		if err != nil {
			return 0, false, err
		}
		sum += t.rate
		if t.above {
			yes++
		} else {
			no++
		}
	}
	return sum / float64(yes+no), yes > no, nil
}

// errDoubt reports delayed small packets beside a train without delay: other traffic, or a slow
// host, delayed them.
var errDoubt = errors.New("small packets waited and the train did not")

// errNothing reports that nothing of a train arrived.
var errNothing = fault.New(fault.Testbed, "let UDP to the responder's port pass", "of the trains nothing has arrived")
