// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/spec"
)

// testerFlags describe one stream on the command line. They become the text of a specification,
// which is checked, run and kept as evidence like a file.
type testerFlags struct {
	from, to, speed           string
	destination, source       string
	destinationMAC            string
	rate, size, gap, duration string
	dscp, policy              string
	peer                      string
	cpus                      []int
	vlan, burst, count, batch int
	id                        int
	streams                   int
	frames                    uint64
	ipv6                      bool
}

func (f *testerFlags) addSending(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "device to send from, NAMESPACE:DEVICE or DEVICE")
	flags.StringVar(&f.rate, "rate", "", `"1000 frame/s", "1.5Mpps", "200Mbit", "10%" (with --speed) or "max"`)
	flags.StringVar(&f.gap, "gap", "", `instead of --rate: "10us" or "20 octets" (with --speed)`)
	flags.StringVar(&f.size, "size", "", "frame size with FCS, 64-9000, or imix (default the smallest)")
	flags.StringVar(&f.duration, "duration", "", "time of sending (default 10s)")
	flags.Uint64Var(&f.frames, "frames", 0, "frames of each stream (default: by duration)")
	flags.StringVar(&f.speed, "speed", "", "speed of the line, such as 10Gbit")
	flags.StringVar(&f.source, "source", "", "source address (default the device's)")
	flags.StringVar(&f.destination, "destination", "", "destination address (default the receiving device's)")
	flags.StringVar(&f.destinationMAC, "destination-mac", "", "destination MAC (default the next hop's)")
	flags.StringVar(&f.dscp, "dscp", "", "DiffServ code point, by number or name")
	flags.StringVar(&f.policy, "policy", "", "treatment of late frames: skip or catch-up (default skip)")
	flags.IntVar(&f.vlan, "vlan", 0, "802.1Q identifier")
	flags.IntVar(&f.burst, "burst", 0, "frames sent back to back")
	flags.IntVar(&f.batch, "batch", 0, "frames sent together; 1 for latency")
	flags.IntVar(&f.count, "count", 0, "number of identical streams")
	f.addID(flags)
	flags.BoolVar(&f.ipv6, "ipv6", false, "IPv6 instead of IPv4")
	flags.StringVar(&f.peer, "peer", "", "other end of a veth pair, which gets an XDP program during the run to receive the frames")
	flags.IntSliceVar(&f.cpus, "cpus", nil, "CPUs that the generator may use")
}

func (f *testerFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.to, "to", "", "device to receive on, NAMESPACE:DEVICE or DEVICE")
}

func (f *testerFlags) addID(flags *pflag.FlagSet) {
	flags.IntVar(&f.id, "id", 0, "identifier of the first stream, 0-4095; senders to the same receiver need different ones")
}

func (f *testerFlags) addReceiving(flags *pflag.FlagSet) {
	f.addID(flags)
	flags.IntVar(&f.streams, "streams", 1, "without SPEC: number of expected streams")
}

// given reports whether any flag describes a stream.
func (f *testerFlags) given() bool { return f.from != "" || f.to != "" }

// specification reads the file, or makes one from the flags.
func (f *testerFlags) specification(args []string, here side) (*spec.Spec, error) {
	switch {
	case len(args) == 1 && f.given():
		return nil, fault.New(fault.Usage, "give either a file or flags", "both a specification and --from or --to are given")
	case len(args) == 1:
		return spec.Read(args[0])
	case here.sends && f.from == "":
		return nil, fault.New(fault.Usage, "give a specification file, or --from", "nothing says which device to send from")
	case here.sends && !here.receives && f.destination == "" && f.destinationMAC == "":
		return nil, fault.New(fault.Usage, "give --destination, the address of the receiving device, or --destination-mac, its MAC: then any address will do",
			"nothing says where to send: the receiver is elsewhere")
	case here.receives && f.to == "":
		return nil, fault.New(fault.Usage, "give a specification file, or --to", "nothing says which device to receive on")
	case here.receives && !here.sends && (f.streams < 1 || f.streams > tester.MaxStreams):
		return nil, fault.New(fault.Usage, fmt.Sprintf("use 1 to %d", tester.MaxStreams), "--streams %d", f.streams)
	}
	text := f.text(here)
	s, err := spec.Parse("flags", []byte(text))
	return s, ofFlags(err, text)
}

// text converts the flags to a specification. A remote end is a port with only a name.
func (f *testerFlags) text(here side) string {
	var b strings.Builder
	b.WriteString("version: 1\nports:\n")
	f.port(&b, "from", f.from, here.sends)
	f.port(&b, "to", f.to, here.receives)
	line := func(indent, key, value string) {
		if value != "" && value != "0" && value != "false" {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, key, value)
		}
	}
	line("", "duration", quote(f.duration))
	line("", "policy", quote(f.policy))
	line("", "batch", strconv.Itoa(f.batch))
	b.WriteString("streams:\n  - from: from\n    to: to\n")
	const deep = "    "
	count := f.count
	if !here.sends {
		count, f.rate = f.streams, "max" // the sender decides
	} else if f.rate == "" && f.gap == "" {
		f.rate = "1000 frame/s"
	}
	if f.ipv6 {
		line(deep, "family", "6")
	}
	line(deep, "id", strconv.Itoa(f.id))
	line(deep, "count", strconv.Itoa(count))
	line(deep, "rate", quote(f.rate))
	line(deep, "gap", quote(f.gap))
	line(deep, "size", quote(f.size))
	line(deep, "source", quote(f.source))
	line(deep, "destination", quote(f.destination))
	line(deep, "destination_mac", quote(f.destinationMAC))
	line(deep, "dscp", quote(f.dscp))
	line(deep, "vlan", strconv.Itoa(f.vlan))
	line(deep, "burst", strconv.Itoa(f.burst))
	line(deep, "frames", strconv.FormatUint(f.frames, 10))
	return b.String()
}

func (f *testerFlags) port(b *strings.Builder, name, text string, here bool) {
	namespace, device := spec.SplitDevice(text)
	if !here {
		device = "elsewhere"
	}
	fmt.Fprintf(b, "  %s:\n    device: %s\n", name, quote(device))
	if namespace != "" {
		fmt.Fprintf(b, "    namespace: %s\n", quote(namespace))
	}
	if name != "from" {
		return
	}
	if f.speed != "" {
		fmt.Fprintf(b, "    speed: %s\n", quote(f.speed))
	}
	if f.peer != "" {
		fmt.Fprintf(b, "    peer: %s\n", quote(f.peer))
	}
	if len(f.cpus) > 0 {
		fmt.Fprintf(b, "    cpus: %s\n", strings.ReplaceAll(fmt.Sprint(f.cpus), " ", ", "))
	}
}

// quote makes any text a YAML scalar; empty text stays empty.
func quote(text string) string {
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}
