//go:build servers

package onceward_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// kafka runs the script that starts real brokers for tests.
func kafka(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("testdata/servers/kafka", args...)
	cmd.Stderr = t.Output()
	b, err := cmd.Output()
	return string(b), err
}

func TestTheKafkaScriptStartsKillsAndStopsThreeBrokers(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if _, err := kafka(t, "stop", dir); err != nil {
			t.Error(err)
		}
		if out, err := kafka(t, "status", dir); err == nil || strings.Contains(out, "running") {
			t.Errorf("after stop: %v, %s", err, out)
		}
	})
	out, err := kafka(t, "start", dir, "--port", "0", "--brokers", "3", "--sasl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if addrs := strings.Split(lines[len(lines)-1], ","); len(addrs) != 3 {
		t.Fatalf("the last line must hold three addresses: %q", out)
	}

	// SASL listeners speak TLS with the certificate that env names.
	out, err = kafka(t, "env", dir)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	pem, err := os.ReadFile(env["KAFKA_CA"])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	for addr := range strings.SplitSeq(env["KAFKA_SASL_BROKERS"], ",") {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", addr, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}

	if _, err := kafka(t, "kill", dir, "2"); err != nil {
		t.Fatal(err)
	}
	if out, err := kafka(t, "status", dir); err == nil || !strings.Contains(out, "broker 2: down") {
		t.Errorf("after kill: %v, %s", err, out)
	}
	if _, err := kafka(t, "kill", dir, "2"); err == nil {
		t.Error("a broker that is down was killed")
	}
	// start again starts what died, and no more.
	before := env["KAFKA_PID_1"]
	if _, err := kafka(t, "start", dir); err != nil {
		t.Fatal(err)
	}
	if out, err := kafka(t, "env", dir); err != nil || !strings.Contains(out, "KAFKA_PID_1="+before+"\n") || strings.Contains(out, "KAFKA_PID_2=\n") {
		t.Errorf("after the second start: %v, %s", err, out)
	}
	if _, err := kafka(t, "start", dir, "--brokers", "1"); err == nil {
		t.Error("a folder of three brokers was started as one")
	}
}
