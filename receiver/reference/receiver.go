// A receiver of webhooks with net/http. It remembers handled messages in memory; use a table of your database instead.
//
//	WEBHOOK_SECRET=whsec_… PORT=9000 go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const maxBodyBytes = 2 << 20

// Verify reports whether the request is genuine. Read the body with io.ReadAll first.
func Verify(secret string, header http.Header, body []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, entry := range strings.Split(header.Get("webhook-signature"), " ") {
		if hmac.Equal([]byte(entry), expected) {
			return true
		}
	}
	return false
}

// messages maps the id of a message to whether its work is done; an id with false is being worked on.
var messages = map[string]bool{}
var mutex sync.Mutex

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBodyBytes))
	if err != nil {
		http.Error(response, "the body is too large or incomplete", http.StatusRequestEntityTooLarge)
		return
	}
	if !Verify(os.Getenv("WEBHOOK_SECRET"), request.Header, body) {
		http.Error(response, "not genuine", http.StatusUnauthorized)
		return
	}
	id := request.Header.Get("webhook-id")
	mutex.Lock()
	done, known := messages[id]
	if !known {
		messages[id] = false
	}
	mutex.Unlock()
	if known && !done {
		response.Header().Set("Retry-After", "5")
		http.Error(response, "busy", http.StatusConflict)
		return
	}
	if known {
		fmt.Fprintln(response, "duplicate")
		return
	}
	err = handle(id, body)
	mutex.Lock()
	defer mutex.Unlock()
	if err != nil {
		delete(messages, id)
		http.Error(response, "failed", http.StatusInternalServerError)
		return
	}
	messages[id] = true
	fmt.Fprintln(response, "handled")
}

// handle is your work. After an error, Sluice sends the message again.
func handle(id string, body []byte) error {
	fmt.Println("handled", id)
	return nil
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "9000"
	}
	server := http.Server{Addr: "127.0.0.1:" + port, Handler: http.HandlerFunc(receive), ReadTimeout: 15 * time.Second}
	log.Fatal(server.ListenAndServe())
}
