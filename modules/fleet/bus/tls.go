// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

const requireCertificate = tls.RequireAndVerifyClientCert

// roots returns the authority of a server's folder.
func roots(dir string) (*x509.CertPool, error) {
	text, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificate authority: no certificate in %s", filepath.Join(dir, caFile))
	}
	return pool, nil
}

// clientTLS returns the settings of a client that trusts the fleet's authority alone.
func clientTLS(pool *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS13}
}
