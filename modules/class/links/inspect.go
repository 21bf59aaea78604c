// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/internal/units"
	"weir/kernel/cputime"
	"weir/kernel/rtnl"
)

// Inspect loads each link for two seconds with packets of all classes, with an excess of less than
// best effort, and checks the order in which they leave.
func (p *hostPlane) Inspect(ctx context.Context, have module.State, seed uint64) (found []module.Inspection, err error) {
	known, err := devices()
	if err != nil {
		return nil, err
	}
	around, err := bypasses(have)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))) // packets of another run are not this one's
	for _, item := range have.Host {
		t, ok := item.Treatment.(*Treatment)
		if !ok || ctx.Err() != nil {
			continue
		}
		one := module.Inspection{Check: item.Name, Verdict: module.CannotSay,
			Promise: fmt.Sprintf("all classes but %s lose nothing and stay in order at %s, and it gets the rest", lowEffort, t.Rate)}
		d, there := known[t.Device]
		if t.Shadow {
			one.Verdict, one.Reason = module.InShadow, "it counts only"
		} else if one.Reason = t.untestable(d, there); one.Reason == "" {
			if err := t.inspect(ctx, &one, d, random.Uint64()); err != nil {
				return found, fmt.Errorf("links.%s: %w", t.Device, err)
			}
			if notes := of(t.Device, around); one.Looked != "" && len(notes) > 0 {
				one.Looked += "; not looked at: " + strings.Join(notes, "; ")
			}
		}
		found = append(found, one)
	}
	return found, nil
}

// untestable returns why a link cannot be tested; "" if it can.
func (t *Treatment) untestable(d rtnl.Device, there bool) string {
	switch {
	case !there:
		return "there is no such device"
	case !d.Running:
		return "the device is down, or has no carrier"
	case d.Header == 0 || len(d.MAC) != 6:
		return "test packets would travel beyond the link of a device without Ethernet addresses"
	case d.MTU < maxPacket:
		return fmt.Sprintf("its MTU of %d is below %d", d.MTU, maxPacket)
	}
	return ""
}

// measured is the result of one test of a link.
type measured struct {
	streams []*sender
	seen    []left
	missed  uint32        // by the tap
	strange units.BitRate // of others meanwhile, in all classes
	busy    float64       // used share of CPU time
	window  time.Duration
}

func (t *Treatment) inspect(ctx context.Context, one *module.Inspection, d rtnl.Device, test uint64) error {
	before, err := t.counted()
	if err != nil {
		return err
	}
	if len(before) == 0 {
		one.Verdict, one.Reason = module.Fails, "the device has no classes: weir apply puts them there"
		return nil
	}
	began := time.Now()
	m, err := t.exercise(ctx, d, test)
	if err != nil {
		return err
	}
	after, err := t.counted()
	if err != nil {
		return err
	}
	octets, own := uint64(0), uint64(0)
	for handle, q := range after {
		octets += q.Bytes - before[handle].Bytes
	}
	for i, s := range m.streams {
		own += uint64(m.seen[i].packets) * uint64(s.packet+ethernetHeader)
	}
	m.strange = units.BitRate(float64(max(octets, own)-own) * 8 / time.Since(began).Seconds())
	t.judge(one, m)
	return nil
}

// exercise sends all streams at once and waits until the queues are empty.
func (t *Treatment) exercise(ctx context.Context, d rtnl.Device, test uint64) (m measured, err error) {
	streams := t.offered()
	tap, err := openTap(d.Index, test, len(streams))
	if err != nil {
		return m, err
	}
	defer func() { _ = unix.Close(tap.fd) }()
	defer func() {
		for _, s := range m.streams {
			_ = unix.Close(s.fd)
		}
	}()
	for _, s := range streams {
		out, err := newSender(s, test, d.Index, d.MAC, t.onWire(s))
		if err != nil {
			return m, err
		}
		if t.Classes[s.class].Name == lowEffort {
			out.behind = farBehind
		}
		m.streams = append(m.streams, out)
	}
	spent, err := cputime.Read()
	if err != nil {
		return m, err
	}
	begin := time.Now()
	tap.from, tap.to, m.window = begin.Add(warmup).UnixNano(), begin.Add(warmup+window).UnixNano(), window
	sending, end := context.WithTimeout(ctx, warmup+window)
	defer end()
	// When the senders end, the longest queue drains within its time if its class is served.
	empty := begin.Add(warmup + window + 100*time.Millisecond)
	for _, c := range t.Classes {
		empty = later(empty, begin.Add(warmup+window+2*time.Duration(c.Queue)))
	}
	var work errgroup.Group
	work.Go(func() error {
		return tap.run(streams, func() bool { return time.Now().After(empty) || ctx.Err() != nil })
	})
	for _, s := range m.streams {
		work.Go(func() error { return s.run(sending) })
	}
	work.Go(func() error {
		<-sending.Done()
		now, err := cputime.Read()
		m.busy = now.BusySince(spent)
		return err
	})
	if err := work.Wait(); err != nil {
		return m, err
	}
	m.seen = tap.seen
	m.missed, err = tap.missed()
	return m, err
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Bounds of the judgement: minimum share of the leftover for less than best effort, tolerance above
// the rate, and maximum share of other traffic.
const (
	wantOfRest = .9
	tooMuch    = 1.03
	tooStrange = .05
	tooBusy    = .8 // of CPU time
)

// judge compares the result with the promises of the classes.
func (t *Treatment) judge(one *module.Inspection, m measured) {
	var words, lost, moved, remarked []string
	total, bulk, bulkOffered, low := 0., 0., 0., -1
	for i, s := range m.streams {
		name, l := t.Classes[s.class].Name, m.seen[i]
		rate := float64(l.inWindow) * float64(s.wire) * 8 / m.window.Seconds()
		total += rate
		if name == lowEffort {
			low, bulk, bulkOffered = i, rate, float64(s.sent)*float64(s.wire)*8/(warmup+window).Seconds()
		} else {
			words = append(words, fmt.Sprintf("%s %d of %d packets, %.1f ms at most", name, l.packets, s.sent, l.most.Seconds()*1e3))
			if l.packets < s.sent {
				lost = append(lost, fmt.Sprintf("%s lost %d of %d", name, s.sent-l.packets, s.sent))
			}
		}
		if l.reordered > 0 {
			moved = append(moved, fmt.Sprintf("%d packets of %s", l.reordered, name))
		}
		if l.strange > 0 {
			remarked = append(remarked, fmt.Sprintf("%d packets of %s", l.strange, name))
		}
	}
	rest := float64(t.Rate) - (total - bulk) - float64(m.strange)
	if low >= 0 {
		rest = min(rest, float64(t.ceiling(t.Classes[m.streams[low].class])))
		words = append(words, fmt.Sprintf("%s %s of %s that were left", lowEffort, units.BitRate(bulk), units.BitRate(max(rest, 0))))
	}
	one.Looked = strings.Join(words, "; ")
	verdict := func(v module.Verdict, format string, args ...any) {
		one.Verdict, one.Reason = v, fmt.Sprintf(format, args...)
	}
	busy := float64(m.strange) > tooStrange*float64(t.Rate)
	switch {
	case m.missed > 0:
		verdict(module.CannotSay, "this host could not capture all packets: %d are missing", m.missed)
	case len(remarked) > 0:
		verdict(module.CannotSay, "another program changes the marks: %s left with another DSCP", strings.Join(remarked, ", "))
	case (len(lost) > 0 || bulk < wantOfRest*rest) && busy:
		verdict(module.CannotSay, "others sent %s by the link meanwhile: test it when it is quieter", m.strange)
	case len(lost) > 0:
		verdict(module.Fails, "%s beside %s", strings.Join(lost, ", "), lowEffort)
	case len(moved) > 0:
		verdict(module.Fails, "%s left behind later ones", strings.Join(moved, ", "))
	case total > tooMuch*float64(t.Rate):
		verdict(module.Fails, "%s left, more than the link's rate", units.BitRate(total))
	case low >= 0 && bulkOffered < rest:
		verdict(module.CannotSay, "this host sent %s of %s, which does not fill the leftover", units.BitRate(bulkOffered), lowEffort)
	case bulk < wantOfRest*rest && m.streams[low].late > time.Duration(t.Classes[m.streams[low].class].Queue):
		verdict(module.CannotSay, "this host was late by %s, so that nothing of %s waited", m.streams[low].late.Round(time.Millisecond), lowEffort)
	case bulk < wantOfRest*rest && m.busy > tooBusy:
		verdict(module.CannotSay, "the CPUs of this host were busy, and %s got %.0f %% of the leftover", lowEffort, 100*bulk/rest)
	case bulk < wantOfRest*rest:
		verdict(module.Fails, "%s got %.0f %% of the leftover", lowEffort, 100*bulk/rest)
	default:
		one.Verdict = module.Holds
	}
}

// Judges documents the inspection.
func (Module) Judges() []module.Judged {
	return []module.Judged{{Check: "the link's name", Of: "each link with classes", Looks: "two seconds of load in all classes, with more less-than-best-effort traffic than the link can carry; packets are captured in the order in which they leave",
		Holds: "all classes except " + lowEffort + " lose nothing, no class is reordered, and " + lowEffort + " gets the remaining rate"}}
}
