// SPDX-License-Identifier: Apache-2.0

// Package spec reads the YAML file of the frame tester: streams to send and expected results.
//
// A file is checked as a whole before anything is sent; every mistake is named with file, line and
// column. The package is pure: tester/session opens devices and resolves missing addresses.
//
// Pitfall: rates in bit/s and in % count a frame's size on the wire, preamble and inter-frame gap
// included; frame sizes count the FCS.
package spec

import (
	"time"

	"weir/internal/infile"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/tester"
)

// Spec is a validated specification.
type Spec struct {
	Name, Title  string
	Source       string // the file's text
	Ports        []Port
	Directions   []Direction // one per pair of ports that streams join, in the file's order
	Expect       []Expectation
	Synchronised bool // the user declares the ports' clocks synchronised
	Straggle     time.Duration
	Capture      int // frames to keep around errors
}

// Port is a device of the test. An empty Namespace is the tester's own.
type Port struct {
	Name, Namespace, Device string
	PeerNamespace, Peer     string        // other end of a veth pair, if known
	CPUs                    []int         // for the generator; none leaves the choice to the scheduler
	Speed                   units.BitRate // of the line; 0 is unknown
}

// Direction is the schedule of one sending port towards one receiving port.
type Direction struct {
	From, To string // names of Ports
	Schedule tester.Schedule
}

// Expectation bounds a metric of a stream (of every stream if Stream is empty), in base units.
type Expectation struct {
	Name, Stream, Metric string
	Min, Max             *float64
}

// Port returns the port of that name.
func (s *Spec) Port(name string) (Port, bool) {
	for _, p := range s.Ports {
		if p.Name == name {
			return p, true
		}
	}
	return Port{}, false
}

// Read reads and checks a file.
func Read(path string) (*Spec, error) {
	text, err := specFile.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

var specFile = infile.Kind{What: "specification", Most: yamlfile.MaxFile, Name: "name a specification file; docs/formats/tester.md describes it",
	Larger: "split the specification"}

// Parse checks the text of a file; messages contain filename.
func Parse(filename string, text []byte) (*Spec, error) {
	tree, err := yamlfile.Parse(filename, text)
	if err != nil {
		return nil, err
	}
	var f file
	var problems yamlfile.Problems
	tree.Decode(&f, nil, &problems)
	const try = "see docs/formats/tester.md"
	if err := problems.Err(try); err != nil {
		return nil, err
	}
	s := build(&f, &problems)
	s.Source = string(text)
	if err := problems.Err(try); err != nil {
		return nil, err
	}
	return s, nil
}
