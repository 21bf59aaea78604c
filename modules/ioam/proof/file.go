// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"encoding/json"

	"weir/internal/fault"
	"weir/internal/infile"
)

// proofFormat is the format of a proof file.
const proofFormat = "weir-ioam-proof/1"

// ProofFile is one node's part of a proof of transit. It has two profiles, selected by the lowest
// bit of a packet's id, so that one can be replaced while packets of the other are in flight. If
// one profile of the first node is null, it uses the other for all packets.
type ProofFile struct {
	Format   string     `json:"format"`
	Node     int        `json:"node"` // position on the path, from 1
	Nodes    int        `json:"nodes"`
	Profiles []*Profile `json:"profiles"` // for even and odd ids
}

// NewProofFile returns the part of the node at a position, from 0, with two profiles.
func NewProofFile(place, nodes int, even, odd *Profile) ProofFile {
	return ProofFile{proofFormat, place + 1, nodes, []*Profile{even, odd}}
}

var proofFile = infile.Kind{What: "proof", Most: 64 << 10, Name: "name a file that weir ioam proof has made",
	Larger: "name a file that weir ioam proof has made"}

// ReadProfiles reads a proof file; null profiles are zero.
func ReadProfiles(path string) ([]Profile, error) {
	text, err := proofFile.Read(path)
	if err != nil {
		return nil, err
	}
	var f ProofFile
	if err := json.Unmarshal(text, &f); err != nil || f.Format != proofFormat || len(f.Profiles) != 2 {
		return nil, fault.New(fault.Usage, "name a file that weir ioam proof has made", "%s holds no proof of transit", path)
	}
	all := make([]Profile, 2)
	for i, p := range f.Profiles {
		if p == nil {
			continue
		}
		if p.Prime%2 == 0 || p.Prime>>62 != 0 || p.Share >= p.Prime || p.Lagrange >= p.Prime {
			return nil, fault.New(fault.Usage, "make it again: weir ioam proof", "%s: profile %d is not over an odd prime below 2^62", path, i)
		}
		all[i] = *p
	}
	return all, nil
}
