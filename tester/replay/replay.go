// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/record/hist"
)

// Port is a device; a nil Namespace is the caller's own.
type Port struct {
	Namespace *netns.Namespace
	Device    string
}

// Config is one replay.
type Config struct {
	Capture Capture
	Rewrite Rewrite
	From    Port
	To      Port    // where arrivals are counted; without a device they are not
	Speed   float64 // factor: 2 takes half of the capture's time; 0 is as fast as possible
	Rounds  int     // number of times the capture is sent; 0 is once
}

// LateAfter is the minimum delay of a frame that counts as late.
const LateAfter = 10 * time.Microsecond

const (
	straggle = 500 * time.Millisecond // without an arrival, after the last frame sent
	longest  = 10 * time.Second
	// MaxSent bounds the arrival marks of the far end.
	MaxSent = 1 << 28
)

// Result is the result of a replay.
type Result struct {
	Format    string          `json:"format"`
	Frames    int             `json:"capture_frames"`
	Backwards int             `json:"backwards"` // frames of the capture with a time before their predecessor's
	Rounds    int             `json:"rounds"`
	Speed     float64         `json:"speed"`             // 0 is as fast as possible
	Span      time.Duration   `json:"asked_ns"`          // from the first frame to the last, as requested
	Elapsed   time.Duration   `json:"elapsed_ns"`        // as sent
	Sent      uint64          `json:"sent"`              // frames that the device accepted
	Late      uint64          `json:"late"`              // of Sent: more than LateAfter late; no frame is skipped
	Replaced  uint64          `json:"replaced"`          // addresses that were rewritten, in one round
	Lateness  *hist.Histogram `json:"lateness_ns"`       // of all frames with a time
	Arrived   *Arrived        `json:"arrived,omitempty"` // nil without a receiving port
	Stopped   bool            `json:"stopped,omitempty"` // by the caller, before the end
}

// FormatResult is the value of Result.Format.
const FormatResult = "weir-replay/1"

// Run replays the capture. A cancelled ctx ends it early and sets Stopped.
func Run(ctx context.Context, c Config) (Result, error) {
	c.Rounds = max(c.Rounds, 1)
	if err := c.check(); err != nil {
		return Result{}, err
	}
	result := Result{Format: FormatResult, Frames: len(c.Capture.Frames), Backwards: c.Capture.Backwards, Rounds: c.Rounds, Speed: c.Speed, Lateness: &hist.Histogram{}}
	for _, f := range c.Capture.Frames {
		result.Replaced += uint64(c.Rewrite.Apply(f.Octets))
	}
	due := c.times()
	if due != nil {
		result.Span = due(result.Frames*c.Rounds - 1)
	}
	s, err := openSender(c.From, c.Capture)
	if err != nil {
		return result, fmt.Errorf("replay from %s: %w", c.From.Device, err)
	}
	defer s.close()
	var w *watcher
	if c.To.Device != "" {
		if w, err = watch(c.To, newMatcher(c.Capture, c.Rounds, due)); err != nil {
			return result, fmt.Errorf("receive on %s: %w", c.To.Device, err)
		}
		defer w.close()
	}
	if err := s.send(ctx, &result, c.Capture.Frames, due); err != nil {
		return result, fmt.Errorf("replay from %s: %w", c.From.Device, err)
	}
	if w != nil {
		result.Arrived, err = w.settle(result.Sent)
	}
	return result, err
}

func (c Config) check() error {
	total := len(c.Capture.Frames) * c.Rounds
	switch {
	case len(c.Capture.Frames) == 0:
		return fault.New(fault.Usage, "give a capture with frames", "there is nothing to replay")
	case c.Speed < 0 || math.IsNaN(c.Speed) || math.IsInf(c.Speed, 0):
		return fault.New(fault.Usage, "give a factor above 0, or max", "a speed of %v cannot be", c.Speed)
	case total > MaxSent || total/c.Rounds != len(c.Capture.Frames):
		return fault.New(fault.Usage, "give fewer rounds", "%d rounds of %d frames are more than %d", c.Rounds, len(c.Capture.Frames), MaxSent)
	case c.Speed > 0 && c.round().Seconds()*float64(c.Rounds)/c.Speed > 1e9:
		return fault.New(fault.Usage, "give a larger --speed or fewer --loops", "the replay would take more than 30 years: are the capture's times right?")
	}
	return nil
}

// round returns the time from one round to the next: the capture's span and its mean gap.
func (c Config) round() time.Duration {
	span := c.Capture.Span()
	return span + span/time.Duration(max(len(c.Capture.Frames)-1, 1))
}

// times returns the due time of frame n of all rounds, after the first; nil as fast as possible.
func (c Config) times() func(n int) time.Duration {
	if c.Speed == 0 {
		return nil
	}
	frames, round := c.Capture.Frames, c.round()
	return func(n int) time.Duration {
		at := time.Duration(n/len(frames))*round + frames[n%len(frames)].At
		return time.Duration(float64(at) / c.Speed)
	}
}

// Check returns an error if the far end received none of the sent frames, or dropped frames itself.
func (r Result) Check() error {
	switch {
	case r.Arrived != nil && r.Arrived.Dropped > 0:
		return fault.New(fault.Testbed, "replay more slowly", "this machine dropped %d frames at the receiving socket: which ones arrived is not known", r.Arrived.Dropped)
	case r.Arrived != nil && r.Sent > 0 && r.Arrived.Frames == 0:
		return fault.New(fault.Failed, "set --destination-mac to the next hop's address; a router forwards only frames to its own", "%w", errNothing)
	case r.Stopped:
		return fault.New(fault.Failed, "let it run to its end for the whole result", "stopped")
	}
	return nil
}

var errNothing = errors.New("no frame of the capture arrived")
