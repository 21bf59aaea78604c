// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/fault"
)

// Shortfall is the share of the asked rate below which a run says that the machine could not send
// it.
const Shortfall = 0.99

// remarks are what a reader must know to judge the account.
func (a Account) remarks(config Config) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	var silent []string
	var late, skipped uint64
	var asked, achieved float64 // of the streams that fell short
	for _, s := range a.Streams {
		if s.Unheard() {
			silent = append(silent, s.Name)
		}
		if s.Sent == nil {
			continue
		}
		late += s.Sent.Late
		skipped += s.Sent.Skipped
		if s.Slow() {
			asked, achieved = asked+s.Asked, achieved+s.Rate()
		}
	}
	if len(silent) > 0 {
		note("no frame of %s arrived: %s", few(silent), tryUnheard)
	}
	if asked > 0 && !a.Stopped {
		note("this machine sent %.0f frame/s where %.0f were asked for: frames that were never sent are not lost frames", achieved, asked)
	}
	if late+skipped > 0 {
		note("%d frames left late and %d were left out because their time had passed", late, skipped)
	}
	if a.Refused > 0 {
		note("the sending devices or their veth peers had no room for %d frames: they count as sent and as lost", a.Refused)
	}
	if a.Dropped > 0 {
		note("the receiving devices dropped %d frames before the analyzer saw them: this loss is the tester's, not the path's", a.Dropped)
	}
	notes = append(notes, a.oddities()...)
	notes = append(notes, a.neighbourRemarks()...)
	notes = append(notes, a.clockRemarks(config.Clock)...)
	if unstamped(config) {
		note("streams without a stamp are sent and counted at the sender alone; at the receiver they are foreign frames")
	}
	return notes
}

// oddities are what no path does to frames, and what a loss is made of.
func (a Account) oddities() (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, s := range a.Streams {
		c := s.Received
		if c == nil {
			continue
		}
		if c.Restarts == 1 {
			note("the sender of %s began again: loss is of the frames since then; %d distinct frames came before", s.Name, c.Earlier)
		}
		if c.Misnumbered > 0 {
			note("%d frames of %s carried sequence numbers that were not theirs: their own count as lost", c.Misnumbered, s.Name)
		}
		if c.OutOfWindow > 0 {
			note("%d frames of %s arrived more than %d numbers late: whether as copies or for the first time cannot be told; where it was the first time they are among the lost", c.OutOfWindow, s.Name, outOfWindow)
		}
		if c.HeaderErrors > 0 {
			note("%d frames of %s had a wrong IPv4 header checksum, which a router would drop: they count as lost", c.HeaderErrors, s.Name)
		}
		if len(notes) > most {
			return append(notes[:most], "and more of this kind")
		}
	}
	return notes
}

const (
	outOfWindow = 127 * 64 // analyzer.Window
	most        = 8        // notes of one kind
)

const tryUnheard = "is the destination MAC the next hop's, does the device under test forward, " +
	"and has a veth peer native XDP or GRO on ('ethtool -K DEVICE gro on')?"

func hasReceiver(streams []Stream) bool {
	for _, s := range streams {
		if s.Received != nil {
			return true
		}
	}
	return false
}

func unstamped(config Config) bool {
	for _, d := range config.Directions {
		for _, s := range d.Schedule.Streams {
			if !s.Stamped {
				return true
			}
		}
	}
	return false
}

// Unheard says that frames were sent and not one arrived.
func (s Stream) Unheard() bool {
	return s.Sent != nil && s.Received != nil && s.Sent.Frames > 0 && s.Received.Received == 0
}

// Slow says that the sender fell short of the asked rate. A handful of frames says nothing about a
// rate.
func (s Stream) Slow() bool {
	const enough = 100
	return s.Sent != nil && s.Asked > 0 && s.Sent.Frames+s.Sent.Skipped >= enough && s.Rate() < Shortfall*s.Asked
}

// short says that so few of the frames that were asked for were sent that the stream is another
// one. Of a stream that is over at once only frames that were left out say so.
func (s Stream) short() bool {
	return s.Slow() && (s.Sent.Skipped > 0 || s.Sent.Last-s.Sent.First >= time.Second)
}

// Short is the error of a machine that could not send what was asked of it: figures at another rate
// than that are no answer.
func (a Account) Short() error {
	var asked, achieved float64
	for _, s := range a.Streams {
		if s.short() {
			asked, achieved = asked+s.Asked, achieved+s.Rate()
		}
	}
	if asked == 0 || a.Stopped {
		return nil
	}
	return fault.New(fault.Testbed, "ask for less, or give the generator more processors, another device or a larger --batch",
		"this machine sent %.0f frame/s where %.0f were asked for: it cannot support the measurement", achieved, asked)
}

// few names some of many.
func few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more streams", strings.Join(names[:most], ", "), len(names)-most)
}
