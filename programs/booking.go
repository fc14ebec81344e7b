package programs

import "embed"

// Booking are the sources of the booking site, in the directory "booking": its
// application and its authentication service for Node.js, and in Java the program that
// starts its document database.
//
//go:embed booking/*.js booking/*.java
var Booking embed.FS

// BookingJava names what is compiled to Java's bytecode, BookingJavaFlags how.
const BookingJava = "Database.java"

// BookingJavaFlags are javac's flags, the same as in the Makefile.
var BookingJavaFlags = []string{"-encoding", "UTF-8", "--release", "17", "-g:none", "-Xlint:all", "-Werror"}
