// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"weir/internal/units"
	"weir/internal/yamlfile"
)

// file is the YAML form of a specification. It stops at this package.
type file struct {
	yamlfile.Fields `yaml:"-"`
	Version         int                     `yaml:"version,required" doc:"Version of the format: 1."`
	Name            string                  `yaml:"name" doc:"Name in reports; \"test\" if left out."`
	Title           string                  `yaml:"title" doc:"Subject of the test, in one line."`
	Ports           yamlfile.Map[*portFile] `yaml:"ports,required" doc:"Devices that may be used, by a name of your choice."`
	Duration        units.Duration          `yaml:"duration" doc:"Time of sending, after which the generator stops by itself; 10s if left out."`
	MaxFrames       uint64                  `yaml:"max_frames" doc:"Frames after which each sending port stops; no limit if left out."`
	Policy          string                  `yaml:"policy" enum:"skip,catch-up" doc:"Treatment of frames that could not be sent in time: skip omits them and keeps the gaps; catch-up sends them back to back and keeps the count. skip if left out."`
	Sequential      bool                    `yaml:"sequential" doc:"One stream after another in the file's order; each needs frames."`
	Batch           int                     `yaml:"batch" doc:"Frames sent together unless a gap requires otherwise; 1 for latency; chosen by the mechanism if left out."`
	Synchronised    bool                    `yaml:"clocks_synchronised" doc:"The clocks of sender and receiver are synchronised (PTP): delays of two machines are one-way delays."`
	Straggle        *units.Duration         `yaml:"straggle" doc:"Maximum wait for late frames; 500ms if left out."`
	Capture         int                     `yaml:"capture" doc:"Frames to keep around errors, for a pcapng file; 0 if left out."`
	Streams         []*streamFile           `yaml:"streams,required" doc:"Streams to send."`
	Expect          []*expectFile           `yaml:"expect" doc:"Bounds on the results; each one gives a verdict."`
}

type portFile struct {
	yamlfile.Fields `yaml:"-"`
	Device          string        `yaml:"device,required" doc:"Name of the network device."`
	Namespace       string        `yaml:"namespace" doc:"Network namespace of the device; the command's own if left out."`
	Peer            string        `yaml:"peer" doc:"Other end of a veth pair, NAMESPACE:DEVICE or DEVICE, if it is not a port of the test itself. It gets an XDP program during the run to receive the frames."`
	CPUs            []int         `yaml:"cpus" doc:"CPUs that the generator of this port may use; all if left out."`
	Speed           units.BitRate `yaml:"speed" doc:"Speed of the line, for rates in % and gaps in octets."`
}

type streamFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string          `yaml:"name" doc:"Name in reports; \"stream 1\" and so on if left out."`
	ID              *int            `yaml:"id" doc:"Identifier in the frames, 0-4095, of the first of its copies; the next free one if left out. Senders to one receiver need different ones."`
	Count           *int            `yaml:"count" doc:"Identical streams, each with its own sequence numbers and the next source port; 1 if left out."`
	From            string          `yaml:"from,required" doc:"Port that sends."`
	To              string          `yaml:"to,required" doc:"Port that receives."`
	Family          *int            `yaml:"family" doc:"4 or 6: the version of IP; that of the addresses if left out, or 4."`
	Source          *address        `yaml:"source" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Source address; the sending device's own if left out, or 198.18.0.1 (RFC 2544), 2001:2::1 (RFC 5180), with a note."`
	Destination     *address        `yaml:"destination" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Destination address; the receiving device's own if left out, or 198.19.0.1, 2001:2:0:1::1, with a note; weir tester send needs one."`
	SourceMAC       *mac            `yaml:"source_mac" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Source MAC; the sending device's own if left out."`
	DestinationMAC  *mac            `yaml:"destination_mac" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Destination MAC; the next hop's by the namespace's routes if left out."`
	SourcePort      *uint16         `yaml:"source_port" doc:"UDP source port; 49152 if left out."`
	DestinationPort *uint16         `yaml:"destination_port" doc:"UDP destination port; 7 (echo, RFC 2544 appendix C) if left out."`
	VLAN            int             `yaml:"vlan" doc:"802.1Q identifier 1-4094; untagged if left out."`
	PCP             int             `yaml:"pcp" doc:"802.1p priority 0-7 of the tag; 0 if left out."`
	DSCP            dscp            `yaml:"dscp" doc:"DiffServ code point, by number or name; 0 if left out."`
	ECN             ecn             `yaml:"ecn" doc:"ECN bits; not-ect if left out."`
	TTL             *int            `yaml:"ttl" doc:"Time to live or hop limit 1-255; 64 if left out."`
	Size            *sizes          `yaml:"size" doc:"Frame size in octets with FCS, 64-9000; imix (7 small, 4 of 594, 1 of 1518); or {mix: [{size: 64, weight: 7}, ...]}. 64 (IPv6: 84) if left out."`
	Rate            *rate           `yaml:"rate" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Rate, as in 1000 frame/s, 1.5 Mpps, 200Mbit on the wire, 10% of the line, or max. One of rate and gap is required."`
	Gap             *gap            `yaml:"gap" schema:"{\"type\": [\"string\", \"number\"]}" doc:"In place of rate: time from start to start, as in 10us, or octets between frames, as in 20 octets (the minimum of a line: preamble and inter-frame gap)."`
	Burst           int             `yaml:"burst" doc:"Frames sent back to back; the mean rate stays. 1 if left out."`
	Start           units.Duration  `yaml:"start" doc:"Start after the test's start; at once if left out."`
	Frames          uint64          `yaml:"frames" doc:"Frames after which the stream ends; by duration if left out."`
	Payload         *payload        `yaml:"payload" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Payload: stamped, or octets to repeat, as in 0xc0ffee; stamped if left out."`
	Modifiers       []*modifierFile `yaml:"modifiers" doc:"Header fields that change from frame to frame."`
}

type modifierFile struct {
	yamlfile.Fields `yaml:"-"`
	Action          string `yaml:"action,required" enum:"increment,decrement,random" doc:"Change of the field."`
	Offset          int    `yaml:"offset,required" doc:"Octets from the start of the Ethernet header."`
	Mask            mask   `yaml:"mask,required" schema:"{\"type\": [\"string\", \"number\"]}" doc:"Bits that change, one to four octets."`
	Repetitions     int    `yaml:"repetitions" doc:"Frames with each value; 1 if left out."`
}

type expectFile struct {
	yamlfile.Fields `yaml:"-"`
	Name            string         `yaml:"name" doc:"The statement in words; derived from the other keys if left out."`
	Stream          string         `yaml:"stream" doc:"Name of the stream; every stream if left out."`
	Metric          string         `yaml:"metric,required" doc:"Name of a metric, such as stream_loss or owd_p99."`
	Min             *yamlfile.Text `yaml:"min" doc:"Minimum, with the metric's unit."`
	Max             *yamlfile.Text `yaml:"max" doc:"Maximum, with the metric's unit."`
}
