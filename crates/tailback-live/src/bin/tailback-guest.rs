//! The first and only process of a virtual machine: runs one scenario and ends the machine.

fn main() {
    #[cfg(target_os = "linux")]
    tailback_live::guest::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("tailback-guest runs on Linux");
}
