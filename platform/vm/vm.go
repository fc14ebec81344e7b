// Package vm has virtual machines as platforms.
package vm
