// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/base64"
	"encoding/hex"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"weir/netconf/tree"
	"weir/tester/instrument"
)

// state builds the state of all ports.
func (d *Device) state(config *tree.Node, wanted func(name string) bool) (*tree.Node, error) {
	var failed error
	root := tree.Make(d.Set, func(m *tree.Maker) {
		for _, top := range []string{"interfaces", "interfaces-state"} {
			if !wanted(top) {
				continue
			}
			m.In(interfaces+":"+top, func(m *tree.Maker) {
				for _, port := range d.instrument.Ports() {
					s, err := d.instrument.State(port.Name)
					if err != nil {
						failed = err
						return
					}
					m.In("interface", func(m *tree.Maker) {
						d.port(m, s)
						if top == "interfaces" && s.Sent != nil {
							m.In(generator+":traffic-generator", func(m *tree.Maker) {
								m.In(extensions+":generation", func(m *tree.Maker) { generation(m, s.Sent) })
							})
						}
						if top == "interfaces" && s.Counts != nil {
							d.analyzer(m, s, configured(config, port.Name))
						}
					})
				}
			})
		}
	})
	return root, failed
}

// configured returns a port's analyzer in the configuration.
func configured(config *tree.Node, name string) *tree.Node {
	for _, port := range config.From(interfaces, "interfaces").All("interface") {
		if port.Text("name") == name {
			return port.From(analyzer, "traffic-analyzer")
		}
	}
	return nil
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// port writes the nodes of RFC 8343.
func (d *Device) port(m *tree.Maker, s instrument.State) {
	m.Leaf("name", s.Port.Name).Leaf("type", ethernet)
	m.Leaf("oper-status", map[bool]string{true: "up", false: "down"}[s.Up])
	if len(s.MAC) > 0 {
		m.Leaf("phys-address", s.MAC.String())
	}
	if s.Port.Speed > 0 {
		m.Uint("speed", s.Port.Speed)
	}
	m.In("statistics", func(m *tree.Maker) {
		m.Leaf("discontinuity-time", date(d.started))
		m.Uint("in-octets", s.Traffic.ReceivedOctets).Uint("in-unicast-pkts", s.Traffic.ReceivedPackets).Uint("in-discards", s.Traffic.ReceivedDropped)
		m.Uint("out-octets", s.Traffic.SentOctets).Uint("out-unicast-pkts", s.Traffic.SentPackets).Uint("out-discards", s.Traffic.SentDropped)
	})
}

func (d *Device) analyzer(m *tree.Maker, s instrument.State, config *tree.Node) {
	all := func(m *tree.Maker) {
		m.Uint("pkts", s.Counts.Packets).Uint("octets", s.Counts.Octets)
		if s.Port.Speed > 0 {
			m.Uint("idle-octets", idle(s.Counts, s.Port.Speed))
		}
	}
	m.In(analyzer+":traffic-analyzer", func(m *tree.Maker) {
		m.In("state", func(m *tree.Maker) {
			if d.model.flat {
				all(m)
				m.In("testframe-stats", func(m *tree.Maker) { testframes(m, s.Counts) })
			} else {
				m.In("statistics", all)
				m.In("testframe-statistics", func(m *tree.Maker) { testframes(m, s.Counts) })
			}
			if s.Analyzer != nil && s.Analyzer.Capture != nil {
				m.In("capture", func(m *tree.Maker) { d.capture(m, s, config) })
			}
			m.In(extensions+":reception", func(m *tree.Maker) { reception(m, s.Counts) })
		})
	})
}

// fcs is counted in sizes and not captured.
const fcs = 4

// overhead is preamble and minimum gap of a frame, which are not idle.
const overhead = 20

// idle is the time without frames in octets.
func idle(c *instrument.Counts, speed uint64) uint64 {
	high, low := bits.Mul64(uint64(max(time.Since(c.Since), 0)), speed)
	if high >= 8e9 {
		return 0
	}
	all, _ := bits.Div64(high, low, 8e9)
	if busy := c.Octets + overhead*c.Packets; busy < all {
		return all - busy
	}
	return 0
}

func testframes(m *tree.Maker, c *instrument.Counts) {
	m.Uint("pkts", c.TestPackets).Uint("octets", c.TestOctets).Uint("sequence-errors", c.SequenceErrors)
	if c.Samples > 0 && c.Negative == 0 { // a stamp from the future is of another clock
		m.In("latency", func(m *tree.Maker) {
			m.Uint("samples", c.Samples).Uint("min", c.Min).Uint("max", c.Max).Uint("average", c.Sum/c.Samples).Uint("latest", c.Latest)
		})
	}
	if e := c.LastError; e != nil {
		m.In("last-sequence-error", func(m *tree.Maker) {
			m.Leaf("timestamp", date(e.At)).Uint("expected", e.Expected).Uint("received", e.Received)
		})
	}
}

func (d *Device) capture(m *tree.Maker, s instrument.State, config *tree.Node) {
	m.In("statistics", func(m *tree.Maker) { m.Uint("pkts", s.Counts.Captured).Uint("octets", s.Counts.CapturedOctets) })
	limit := uint64(instrument.MaxCaptured)
	if k := config.Kid("capture").Kid("max-frames-visible"); k != nil {
		limit = number(k)
	}
	frames, err := d.instrument.Frames(s.Port.Name, limit)
	if err != nil {
		d.log.Warn("capture not read", "port", s.Port.Name, "error", err)
	}
	if d.model.flat {
		d.frames(m, frames)
		return
	}
	m.In("frames", func(m *tree.Maker) { d.frames(m, frames) })
}

func (d *Device) frames(m *tree.Maker, frames []instrument.Frame) {
	for _, f := range frames {
		m.In("frame", func(m *tree.Maker) {
			size := uint64(f.Size + fcs)
			m.Uint("sequence-number", f.Number).Leaf("timestamp", date(f.At))
			if d.model.hex {
				m.Uint("length", size).Leaf("data", strings.ToUpper(hex.EncodeToString(f.Data)))
			} else {
				m.Uint("size", size).Leaf("data", base64.StdEncoding.EncodeToString(f.Data))
			}
		})
	}
}

// generation writes the state of a generator.
func generation(m *tree.Maker, s *instrument.Sent) {
	m.Leaf("mechanism", "AF_XDP").Leaf("running", strconv.FormatBool(s.Running))
	if s.Ended != "" {
		m.Leaf("ended", s.Ended)
	}
	m.Uint("frames", s.Frames).Uint("octets", s.Octets).Uint("late", s.Late).Uint("rejected", s.Rejected).Uint("lag", uint64(s.Lag))
}

// reception writes the state of an analyzer beyond the model.
func reception(m *tree.Maker, c *instrument.Counts) {
	m.Leaf("since", date(c.Since)).Uint("stamped", c.Stamped).Uint("future-stamps", c.Negative)
	if c.TestPackets > 0 {
		m.Leaf("first", date(c.First)).Leaf("last", date(c.Last))
	}
}
