// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/record/hist"
	"weir/tester"
)

// account joins the present counts of generators and analyzers.
func (r *running) account() (Account, error) {
	a := Account{
		Format: FormatAccount, Name: r.config.Name, Started: r.began, Elapsed: time.Since(r.began), Clock: r.config.Clock,
		Epoch:      epoch(),
		Mechanisms: map[string]string{}, Series: r.past, Lateness: &hist.Histogram{},
	}
	found := map[string]map[uint16]tester.Counts{} // by receiving port: each analyzer counts its own streams only
	for _, name := range r.order {
		analysis, err := r.receivers[name].Snapshot()
		if err != nil {
			return a, fmt.Errorf("read analyzer of %s: %w", name, err)
		}
		a.Foreign += analysis.Foreign
		a.Unknown += analysis.Unknown
		found[name] = map[uint16]tester.Counts{}
		for _, c := range analysis.Streams {
			found[name][c.Stream] = c
		}
	}
	for i, d := range r.config.Directions {
		generation, sending := r.generation(i)
		if sending {
			a.Mechanisms["generator "+d.From.String()] = generation.Mechanism
			a.Ended = join(a.Ended, generation.Ended)
			a.Refused += generation.Refused
			a.Lateness.Merge(generation.Lateness)
		}
		for _, stream := range d.Schedule.Streams {
			a.Streams = append(a.Streams, combine(d, stream, generation, sending, found[d.To.String()]))
		}
		if d.To.Here() && len(d.Schedule.Streams) == 0 {
			a.Streams = append(a.Streams, unannounced(d, found[d.To.String()])...)
		}
	}
	a.reclock()
	return a, nil
}

// epoch returns the wall-clock time of CLOCK_MONOTONIC's zero; the zero time if the clock cannot be
// read.
func epoch() time.Time {
	var monotonic unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(monotonic.Nano()))
}

// join lists the end reasons of the generators, each once.
func join(have, next string) string {
	switch {
	case have == "" || have == next:
		return next
	case next == "" || strings.Contains(have, next):
		return have
	}
	return have + ", " + next
}

// generation returns the account of direction i's generator; false if the sender is remote.
func (r *running) generation(i int) (tester.Generation, bool) {
	if r.senders[i] == nil {
		return tester.Generation{}, false
	}
	r.mu.Lock()
	ended := r.sent[i]
	r.mu.Unlock()
	if ended.Mechanism != "" {
		return ended, true
	}
	return r.senders[i].Progress(), true
}

// combine builds one stream's account from its local ends.
func combine(d Direction, stream tester.Stream, generation tester.Generation, sending bool, found map[uint16]tester.Counts) Stream {
	s := Stream{ID: stream.ID, Name: stream.Name, From: d.From.String(), To: d.To.String(), Asked: Asked(stream)}
	if s.Name == "" {
		s.Name = fmt.Sprintf("stream %d", stream.ID)
	}
	if sending {
		s.Sent = &tester.Sent{Stream: stream.ID}
		for _, sent := range generation.Sent {
			if sent.Stream == stream.ID {
				s.Sent = &sent
			}
		}
	}
	if d.To.Here() && stream.Stamped {
		s.Received = &tester.Counts{Stream: stream.ID}
		if counts, arrived := found[stream.ID]; arrived {
			s.Received = &counts
		}
	}
	s.lose()
	return s
}

// unannounced lists the streams seen by a receiver without a specification.
func unannounced(d Direction, found map[uint16]tester.Counts) []Stream {
	var streams []Stream
	for id := range uint16(tester.MaxStreams) {
		if counts, arrived := found[id]; arrived && counts.Received > 0 {
			s := Stream{ID: id, Name: fmt.Sprintf("stream %d", id), To: d.To.String(), Received: &counts}
			s.lose()
			streams = append(streams, s)
		}
	}
	return streams
}

// SequenceBits is the length of the counting part of a sequence number; the bits above it are the
// stream's identifier.
const SequenceBits = 48

// lose sets Lost and TailLost. An arrival outside the window counts as lost (RFC 7680's threshold).
// After a restart of the sender only later frames count.
func (s *Stream) lose() {
	if s.Received == nil {
		return
	}
	s.Lost = s.Received.Lost
	if s.Sent == nil {
		return
	}
	s.Lost = s.Sent.Frames - min(s.Received.Unique-s.Received.Earlier, s.Sent.Frames)
	seen := uint64(0)
	if s.Received.Received > 0 {
		seen = s.Received.HighestSequence&(1<<SequenceBits-1) + 1
	}
	s.TailLost = min(s.Lost, s.Sent.Frames-min(seen, s.Sent.Frames))
}

// Asked returns the requested frame rate of a stream in frame/s; 0 is as fast as possible.
func Asked(s tester.Stream) float64 {
	if s.Gap <= 0 {
		return 0
	}
	return 1 / s.Gap.Seconds()
}
