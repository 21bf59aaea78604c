// SPDX-License-Identifier: Apache-2.0

package session

import (
	"maps"

	"weir/internal/fault"
	"weir/tester/neighbour"
)

// Join combines the accounts of a sender and a receiver. With clock empty or Relative the delays
// are relative to the smallest one; OneWay is the user's declaration that the two clocks were
// synchronised.
func Join(sender, receiver Account, clock Clock) (Account, error) {
	for _, a := range []Account{sender, receiver} {
		if a.Format != FormatAccount {
			return Account{}, fault.New(fault.Usage, "give the documents that 'weir tester send' and 'receive' print with --format json",
				"format %q is not %s", a.Format, FormatAccount)
		}
	}
	if !has(sender, func(s Stream) bool { return s.Sent != nil }) {
		return Account{}, fault.New(fault.Usage, "give the sender's account first", "the first account has sent nothing")
	}
	if !has(receiver, func(s Stream) bool { return s.Received != nil }) {
		return Account{}, fault.New(fault.Usage, "give the receiver's account second", "the second account has received nothing")
	}
	if clock == "" {
		clock = Relative
	}
	joined := Account{
		Format: FormatAccount, Name: sender.Name, Started: sender.Started, Elapsed: sender.Elapsed, Clock: clock,
		Mechanisms: map[string]string{}, Foreign: receiver.Foreign, Unknown: receiver.Unknown, Refused: sender.Refused,
		Dropped: receiver.Dropped, Steal: max(sender.Steal, receiver.Steal), Others: max(sender.Others, receiver.Others), Lateness: sender.Lateness, Ended: sender.Ended,
		Stopped: sender.Stopped, Series: receiver.Series,
	}
	maps.Copy(joined.Mechanisms, sender.Mechanisms)
	maps.Copy(joined.Mechanisms, receiver.Mechanisms)
	joined.Neighbours = neighbour.Sum(sender.Neighbours, receiver.Neighbours)
	joined.match(sender, receiver)
	joined.reclock()
	joined.Notes = joined.remarks(Config{Clock: clock})
	return joined, nil
}

func has(a Account, is func(Stream) bool) bool {
	for _, s := range a.Streams {
		if is(s) {
			return true
		}
	}
	return false
}

// match pairs the streams of the two accounts by their identifiers. Streams that only the receiver
// knows came from elsewhere: they are omitted and noted.
func (a *Account) match(sender, receiver Account) {
	arrived := map[uint16]Stream{}
	for _, s := range receiver.Streams {
		arrived[s.ID] = s
	}
	for _, s := range sender.Streams {
		if s.Sent == nil {
			continue
		}
		other, known := arrived[s.ID]
		if known {
			s.To, s.Received = other.To, other.Received
			delete(arrived, s.ID)
		}
		s.lose()
		a.Streams = append(a.Streams, s)
	}
	for _, s := range arrived {
		if s.Received != nil && s.Received.Received > 0 {
			a.Unknown += s.Received.Received
		}
	}
}

// Check verifies the account. It returns an error of status Failed if a whole stream was lost, a
// lone receiver received nothing, or several senders used one identifier. A low rate and late
// frames are only noted.
func (a Account) Check() error {
	if err := a.silent(); err != nil {
		return err
	}
	for _, s := range a.Streams {
		if s.Received != nil && s.Received.Restarts > 1 {
			return fault.New(fault.Failed, "give each sender identifiers of its own: --id, or id: in the specification",
				"%s (identifier %d) has several senders, or one that began again %d times: its figures mean nothing", s.Name, s.ID, s.Received.Restarts)
		}
		if s.Unheard() {
			return fault.New(fault.Failed, "check MAC addresses, routes and forwarding, and that a veth peer has XDP or GRO on",
				"no frame of %s arrived: %d were sent from %s towards %s", s.Name, s.Sent.Frames, s.From, s.To)
		}
	}
	return nil
}

// silent returns the error of a receiver without any stamped frame.
func (a Account) silent() error {
	if len(a.Streams) == 0 {
		return nil
	}
	for _, s := range a.Streams {
		if s.Sent != nil || s.Received == nil || s.Received.Received > 0 {
			return nil
		}
	}
	return fault.New(fault.Failed, "start the sender while this receives; compare the identifiers (--id, --streams), and see that the path forwards",
		"no frame of the %d expected streams arrived; %d frames of other streams and %d without a stamp did", len(a.Streams), a.Unknown, a.Foreign)
}
