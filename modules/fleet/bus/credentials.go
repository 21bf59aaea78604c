// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

// Credentials let a host or operator connect to the servers of a fleet. A file of them is secret.
type Credentials struct {
	Fleet string `json:"fleet"`
	Host  string `json:"host,omitempty"` // "" for an operator
	Seed  string `json:"seed"`           // NKEY, base32
	CA    string `json:"ca"`             // PEM: the fleet's certificate authority
}

// serverName is the name in the certificates of all servers of fleets. The authority belongs to
// the fleet alone, so addresses may change.
const serverName = "weir-fleet"

// Write writes the credentials to a new file that only its owner can read.
func (c Credentials) Write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := CheckNew(path); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o600, append(text, '\n'))
}

// CheckNew rejects the path of an existing file.
func CheckNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Usage, "choose another name, or remove the file first", "%s exists", path)
	}
	return nil
}

// ReadCredentials reads a credentials file of Weir, or of NATS (*.creds, JWT and seed).
func ReadCredentials(path string) (Credentials, []nats.Option, error) {
	const try = "make one on the server with 'weir fleet enroll HOST', and copy it here with mode 600"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, nil, fault.New(fault.Usage, try, "credentials: no file %s", path)
	}
	if err != nil {
		return Credentials{}, nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Credentials{}, nil, fault.New(fault.Usage, "run 'chmod 600 "+path+"'", "credentials: other users can read %s", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Credentials{}, nil, err
	}
	if strings.Contains(string(text), "BEGIN NATS USER JWT") {
		return Credentials{}, []nats.Option{nats.UserCredentials(path)}, nil
	}
	var c Credentials
	if err := json.Unmarshal(text, &c); err != nil {
		return c, nil, fault.New(fault.Usage, try, "credentials: %s: %v", path, err)
	}
	options, err := c.options()
	if err != nil {
		return c, nil, fault.New(fault.Usage, try, "credentials: %s: %v", path, err)
	}
	return c, options, nil
}

// options returns the options of a connection.
func (c Credentials) options() ([]nats.Option, error) {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CA)) {
		return nil, errors.New("no certificate in ca")
	}
	return []nats.Option{
		nats.Nkey(public, pair.Sign),
		nats.Secure(clientTLS(pool)),
	}, nil
}
