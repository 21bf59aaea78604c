// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"

	"weir/internal/fault"
	"weir/internal/units"
)

// Data returns the host that sends the flow's data and the one that receives it: of a request and
// its response, the larger.
func (f Flow) Data() (from, to string) {
	if f.Kind == Request && f.Response >= f.Request {
		return f.To, f.From
	}
	return f.From, f.To
}

// MinPayload is the smallest payload of a datagram, in octets: the stamp that says which one it is.
const MinPayload = 24

// maxPayload is what an IPv4 packet without options can carry behind a UDP header, in octets.
const maxPayload = 65535 - 20 - 8

// Validate says what is wrong with a flow that no generator could run. The error carries
// fault.Usage.
func (f Flow) Validate() error {
	err := f.validate()
	if err != nil {
		err = fmt.Errorf("flow %s: %w", f.Name, err)
	}
	return fault.Wrap(err, fault.Usage, "")
}

func (f Flow) validate() error {
	switch {
	case f.Streams < 1:
		return fmt.Errorf("%d streams: at least 1 is needed", f.Streams)
	case f.DSCP > 63:
		return fmt.Errorf("DSCP %d is above 63", f.DSCP)
	case f.Start < 0 || f.Duration < 0:
		return errors.New("start and duration must not be negative")
	case f.Duration == 0 && (f.Kind != Bulk || f.Bytes == 0):
		return errors.New("the duration is 0")
	}
	switch f.Kind {
	case Bulk:
		return nil
	case Request:
		return f.validateRequest()
	case Datagram:
		return f.validateDatagram()
	}
	return fmt.Errorf("%q is no kind of traffic: choose %s, %s or %s", f.Kind, Bulk, Request, Datagram)
}

func (f Flow) validateRequest() error {
	switch {
	case f.Request < 1 || f.Response < 1:
		return errors.New("request and response must have at least 1 octet")
	case f.Concurrency < 1:
		return fmt.Errorf("concurrency %d: at least 1 is needed", f.Concurrency)
	}
	return nil
}

func (f Flow) validateDatagram() error {
	switch {
	case f.Rate == 0:
		return errors.New("datagrams need a rate")
	case f.Payload < MinPayload || f.Payload > maxPayload:
		return fmt.Errorf("payload of %d octets: it must lie between %d and %d", f.Payload, MinPayload, maxPayload)
	case f.Congestion != "":
		return errors.New("datagrams have no congestion control")
	case f.Rate/units.BitRate(f.Streams) == 0:
		return errors.New("the rate is below 1 bit/s per stream")
	}
	return nil
}
