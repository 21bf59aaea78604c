// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"weir/internal/atomicfile"
)

// Files of a server's folder.
const (
	caFile       = "ca.pem"
	caKeyFile    = "ca.key"
	usersFile    = "users.json"
	operatorFile = "operator.credentials"
)

// validity of the authority. Certificates of servers are made at each start.
const validity = 20 * 365 * 24 * time.Hour

// makeAuthority makes the fleet's certificate authority unless the folder has one.
func makeAuthority(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, caFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate("Weir fleet")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	err = atomicfile.WriteBytes(filepath.Join(dir, caKeyFile), 0o600, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, caFile), 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func certificate(subject string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: subject},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(validity)}
}

// serverTLS makes a server's certificate by the authority of the folder. Servers of a cluster
// identify themselves to each other with it.
func serverTLS(dir string) (*tls.Config, error) {
	authority, err := tls.LoadX509KeyPair(filepath.Join(dir, caFile), filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(serverName)
	template.DNSNames = []string{serverName}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}, nil
}
