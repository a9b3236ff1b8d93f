//! Write the JavaScript around a WebAssembly module: `bindings MODULE FOLDER`.

use std::env::args_os;
use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = args_os().skip(1);
    let (Some(module), Some(folder)) = (words.next(), words.next()) else {
        return Err("give the module and a folder".into());
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(true).omit_default_module_path(false);
    Ok(bindgen.generate(folder)?)
}
